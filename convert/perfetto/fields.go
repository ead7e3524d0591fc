package perfetto

// The numbers of fields and of other values. They are a part of Perfetto's format.
const (
	tracePacket = 1 // fields of Trace

	packetClocks     = 6 // fields of TracePacket
	packetTime       = 8
	packetSequence   = 10
	packetEvent      = 11
	packetInterned   = 12
	packetFlags      = 13
	packetDescriptor = 60
	packetFirst      = 87

	flagCleared = 1 // a value of packetFlags: forget interned names
	flagNeeds   = 2 // a value of packetFlags: the packet uses interned names

	clocksClock   = 1 // fields of ClockSnapshot
	clockID       = 1 // fields of a clock in ClockSnapshot
	clockTime     = 2
	clockRealtime = 1 // a clockID
	clockBootTime = 6 // the clockID of timestamps

	trackUUID     = 1 // fields of TrackDescriptor
	trackName     = 2
	trackProcess  = 3
	trackParent   = 5
	trackOrdering = 11
	trackRank     = 12
	trackMerge    = 15
	byRank        = 3 // a value of trackOrdering
	mergeNone     = 2 // a value of trackMerge: never merge the track

	processPID    = 1 // fields of ProcessDescriptor
	processName   = 6
	processLabels = 8

	eventCategory = 3 // fields of TrackEvent
	eventArg      = 4
	eventType     = 9
	eventNameID   = 10
	eventTrack    = 11
	eventName     = 23
	eventFlow     = 47
	eventFlowEnd  = 48
	eventTraceID  = 53

	typeBegin   = 1 // values of eventType
	typeEnd     = 2
	typeInstant = 3

	internedCategories = 1 // fields of InternedData
	internedNames      = 2
	internedArgs       = 3
	internedID         = 1 // fields of an interned name
	internedText       = 2

	argNameID = 1 // fields of DebugAnnotation
	argBool   = 2
	argInt    = 4
	argDouble = 5
	argText   = 6
	argName   = 10
	argDict   = 11
	argArray  = 12
)
