package record

// Renumber returns items with numbers for the names in place that have one by now, or get
// one as they come again; nil if there are none. It is for items that many records share:
// they were built when their names came for the first time.
func (in *Interner) Renumber(items []byte) []byte {
	c := Cursor{b: items}
	var out []byte
	var i Item
	copied := 0
	// in place of the bytes from at, up to where the cursor is
	replace := func(at int, prefix []byte, n uint16) {
		out = appendNumber(append(append(out, items[copied:at]...), prefix...), n)
		copied = c.at
	}
	for c.at < len(items) && !c.bad {
		at := c.at
		if items[at] != 0 || at+1 == len(items) {
			c.Item(&i)
			continue
		}
		switch code := items[at+1]; code {
		case codeName, codeOwn:
			c.at += 2
			name := c.bytes()
			if n := in.name(name, code == codeOwn); n != 0 {
				replace(at, nil, n)
			}
			c.value(&i)
		case codeGroup:
			c.at += 2
			if t := c.text(); t.Number == 0 {
				if n := in.name(t.Text, false); n != 0 {
					replace(at, []byte{0, codeGroup}, n)
				}
			}
		default:
			c.at += 2
		}
	}
	if c.bad || copied == 0 {
		return nil
	}
	return append(out, items[copied:]...)
}
