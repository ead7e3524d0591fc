package perfetto

// The numbers of the fields that are written. They are part of Perfetto's format.
const (
	tracePacket = 1 // of Trace

	packetClocks     = 6 // of TracePacket
	packetTime       = 8
	packetSequence   = 10
	packetEvent      = 11
	packetInterned   = 12
	packetFlags      = 13
	packetDescriptor = 60
	packetFirst      = 87

	flagCleared = 1 // of packetFlags: forget interned data
	flagNeeds   = 2 // of packetFlags: the packet needs interned data

	clocksClock   = 1 // of ClockSnapshot
	clockID       = 1 // of a clock in it
	clockTime     = 2
	clockRealtime = 1 // the number of a clock
	clockBootTime = 6 // the clock of packet times

	trackUUID     = 1 // of TrackDescriptor
	trackName     = 2
	trackProcess  = 3
	trackParent   = 5
	trackOrdering = 11
	trackRank     = 12
	trackMerge    = 15
	byRank        = 3 // a trackOrdering
	mergeNone     = 2 // a trackMerge: never merge the track

	processPID    = 1 // of ProcessDescriptor
	processName   = 6
	processLabels = 8

	eventCategory = 3 // of TrackEvent
	eventArg      = 4
	eventType     = 9
	eventNameID   = 10
	eventTrack    = 11
	eventName     = 23
	eventFlow     = 47
	eventFlowEnd  = 48
	eventTraceID  = 53

	typeBegin   = 1 // of eventType
	typeEnd     = 2
	typeInstant = 3

	internedCategories = 1 // of InternedData
	internedNames      = 2
	internedArgs       = 3
	internedID         = 1 // of each interned item
	internedText       = 2

	argNameID = 1 // of DebugAnnotation
	argBool   = 2
	argInt    = 4
	argDouble = 5
	argText   = 6
	argName   = 10
	argDict   = 11
	argArray  = 12
)
