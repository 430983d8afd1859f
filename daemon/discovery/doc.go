// Package discovery finds targets as Prometheus does, with Prometheus's own code.
//
//  1. A [Section] is the list below one key of the configuration, such as
//     file_sd_configs, as text. [Check] reads it with Prometheus's own types and says
//     what is wrong, and what may be printed of it.
//  2. An [Entry] joins the sections of one entry of targets. [Manager.Replace] takes
//     entries: for each item of their lists a provider is started, and those that are
//     the same as before go on with what they know.
//  3. A provider keeps the last list that its mechanism has reported. A refresh that
//     fails changes nothing; an empty list is an answer, and empties it.
//  4. [Manager.Found] relabels what all providers know and gives what is left as
//     [Found] values. [Manager.Run] says when that may have changed, at most once in
//     five seconds, so that a rollout of a hundred pods is a few changes.
//  5. [Manager.State] is what /metrics shows of it.
//
// Nothing here knows what a target is asked: who takes the list makes targets out of
// it, with the limits of the entry.
package discovery
