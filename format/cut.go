package format

// AttrTruncated is the attribute, Bool true, of an entry of which something was
// cut off.
const AttrTruncated = "!TRUNCATED"
