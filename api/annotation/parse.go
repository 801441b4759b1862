package annotation

// Input is what one Service asks for, and what is known of it from before.
type Input struct {
	// Annotations are the Service's.
	Annotations map[string]string
	// Spec is what the Service's spec fields say, by option (Option.SpecField):
	// lists are joined by commas, a field that is not set is absent. It wins
	// over annotations.
	Spec map[Name]string
	// Accepted are the Result.Accepted of the last time.
	Accepted map[Name]string
	// Written maps annotation keys to the values that Fairlead, or the
	// controller that it took the Service over from, wrote there. An
	// annotation that still holds that value is output, never a request.
	Written map[string]string
	// Ports are the Service's, to check per-port values against. Without any,
	// those checks are left out.
	Ports []Port
	// Provider is who serves the Service; empty: nobody is asked whether it
	// honours the options.
	Provider Provider
	// New tells that the Service was never accepted before.
	New bool
}

// Result is what was understood. It depends on the Input alone.
type Result struct {
	Values Values
	// Accepted is the text of each option in force, to be kept for the next
	// Input. It is in the neutral form, whichever key it came from.
	Accepted map[Name]string
	// Problems are sorted by option name, then key.
	Problems []Problem
}

// Parse reads everything that a Service asks for. A value that cannot be
// understood or honoured becomes a Problem; it concerns its own option only,
// which then keeps its last accepted value or, without one, stays unset.
func Parse(in Input) Result {
	return Result{}
}
