package main

// foreignFormats are the formats of others, in the order in which --list has them.
var foreignFormats = []foreignFormat{}
