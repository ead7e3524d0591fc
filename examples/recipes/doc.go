// Package recipes has the tests of docs/recipes.md: each recipe there is code that runs here.
package recipes
