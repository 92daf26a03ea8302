package unique

// WithFile returns o with every temporary file wrapped.
func WithFile(o Options, wrap func(File) File) Options {
	o.create = func(dir string) (file, error) {
		f, err := createTemp(dir)
		if err != nil {
			return nil, err
		}
		return wrap(f), nil
	}
	return o
}

// File is what a check needs of a temporary file.
type File = file

// Small returns options that sort few IDs at a time, so that small sets take the
// way of large ones.
func Small(dir string, capacity int) Options {
	return Options{Dir: dir, Memory: MinMemory, few: capacity}
}
