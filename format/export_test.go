package format

// RaceEnabled tells the external tests that pools drop what they are given.
const RaceEnabled = raceEnabled
