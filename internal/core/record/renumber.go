package record

// Renumber returns a copy of items in which names have become numbers, as far as a name has a number or gets one
// now. It returns nil if no name was replaced. It is for items that many records share: they were built when their
// names were new and had no numbers.
func (in *Interner) Renumber(items []byte) []byte {
	c := Cursor{b: items}
	var out []byte
	var i Item
	copied := 0
	// replace appends prefix and the number n in place of the bytes between the offset at and the cursor.
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
			if n, _ := in.name(name, code == codeOwn); n != 0 {
				replace(at, nil, n)
			}
			c.value(&i)
		case codeGroup:
			c.at += 2
			if t := c.text(); t.Number == 0 {
				if n, _ := in.name(t.Text, false); n != 0 {
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
