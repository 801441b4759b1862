package annotation

// Table returns every option, sorted by name. The caller may keep it, not change it.
func Table() []Option { return nil }
