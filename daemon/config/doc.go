// Package config turns files, environment variables and flags into a [Config],
// or into the complete list of what is wrong with them.
//
// The story of the data:
//
//  1. Each source is parsed to YAML nodes, and read against the types of
//     schema.go: every value is checked where it stands, so that a mistake is
//     reported with its file and line, and converted (30s, 200k, 99 %).
//  2. What was read is a layer: a tree of plain values in which lists of named
//     things are maps by name. koanf merges the layers, later ones win; the
//     defaults are the first layer.
//  3. The merged tree is decoded into the schema's types, and what depends on
//     several keys is decided (arrivals, time-outs, limits of an environment).
//  4. The result is checked as a whole: names that must exist, keys that
//     exclude each other, and every pair against its environment's limits.
//
// Nothing is half applied: [Load] changes nothing outside of its result, and its
// error holds all mistakes at once. No error text ever holds the value of a
// secret, of a URL, or of a variable that ${NAME} stands for.
//
// REFERENCE.md is written from the types by go generate.
package config

//go:generate go run ./gen
