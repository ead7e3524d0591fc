package entrace

// Variables are those that are known.
var Variables = variables
