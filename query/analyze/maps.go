package analyze

// at returns the value of a key. It adds a new value if there is none.
func at[K comparable, V any](m map[K]*V, key K) *V {
	x := m[key]
	if x == nil {
		x = new(V)
		m[key] = x
	}
	return x
}
