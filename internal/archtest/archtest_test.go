package archtest

import (
	"os"
	"testing"
)

// root is the module's root as seen from this package.
const root = "../.."

func report(t *testing.T, violations []Violation) {
	t.Helper()
	for _, v := range violations {
		t.Error(v)
	}
}

func read(t *testing.T) Tree {
	t.Helper()
	tree, err := Read(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	// A checker that finds nothing to check would pass.
	if len(tree.Packages) < 5 {
		t.Fatalf("only %d packages below %s: this is not the module's root", len(tree.Packages), root)
	}
	return tree
}

func readLayers(t *testing.T) []Layer {
	t.Helper()
	text, err := os.ReadFile(root + "/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	layers, err := ReadLayers(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return layers
}

func TestImportsPointInwards(t *testing.T) {
	report(t, CheckLayers(read(t), readLayers(t)))
}

func TestPurePackagesArePure(t *testing.T) {
	report(t, CheckPure(read(t), Pure()))
}

func TestEveryPackageSaysWhatItDoes(t *testing.T) {
	report(t, CheckDocs(read(t)))
}

func TestModuleStaysSmall(t *testing.T) {
	text, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	report(t, CheckModule(string(text)))
}

func TestNoFileHoldsWhatNoneMay(t *testing.T) {
	violations, err := CheckText(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	report(t, violations)
}
