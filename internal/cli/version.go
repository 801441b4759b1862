package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand(w world) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Long:    "Print the version of this program, and what it was built from.",
		Example: "  fairlead version",
		Args:    noArgs(),
		RunE: func(*cobra.Command, []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			fmt.Fprint(w.Out, versionText(info, runtime.GOOS+"/"+runtime.GOARCH))
			return nil
		},
	}
}

func versionText(info *debug.BuildInfo, platform string) string {
	version, revision, dirty := info.Main.Version, "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ", with changes"
		}
	}
	if version == "" {
		version = "(devel)"
	}
	return fmt.Sprintf("fairlead %s\nrevision %s%s\nbuilt with %s for %s\n", version, revision, dirty, info.GoVersion, platform)
}
