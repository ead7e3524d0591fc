package analyze

// at returns m[key]. If m has no such key, at adds a pointer to a zero value first.
func at[K comparable, V any](m map[K]*V, key K) *V {
	x := m[key]
	if x == nil {
		x = new(V)
		m[key] = x
	}
	return x
}
