package annotation

// Kind says what sort of problem there is.
type Kind string

// The kinds.
const (
	// Invalid: the value does not parse or is out of range.
	Invalid Kind = "Invalid"
	// Unknown: nobody knows this key under a prefix that we read.
	Unknown Kind = "Unknown"
	// Conflict: two sources differ; the message says which one won.
	Conflict Kind = "Conflict"
	// OldMeaning: the value under an old key keeps the meaning that its own
	// controller gave it, which is hardly what was meant.
	OldMeaning Kind = "OldMeaning"
	// Adjusted: the value was read in a stricter form than it is written in.
	Adjusted Kind = "Adjusted"
	// NotApplicable: this provider has no use for the option. The Service
	// stays accepted.
	NotApplicable Kind = "NotApplicable"
	// NotYet: this provider will honour the option and does not yet.
	NotYet Kind = "NotYet"
)

// Problem is what is wrong with one source of one option.
type Problem struct {
	// Option is empty for an Unknown key.
	Option Name
	// Key is the annotation key or spec field as the user wrote it.
	Key   string
	Value string
	Kind  Kind
	// Message is what to tell the user: what is wrong, what is allowed, and
	// what is being done meanwhile. It is fit for a condition.
	Message string
	// Allowed says what values the option takes.
	Allowed string
	// Suggestion is what was probably meant: a value, or for an Unknown key
	// the nearest known key; empty when nothing is near.
	Suggestion string
	// Exposure tells that a new Service must not be served until this is
	// mended.
	Exposure bool
	// Held tells that the option keeps its last accepted value.
	Held bool
}
