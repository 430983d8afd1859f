// Package web shows what the daemon knows and takes the few orders it accepts.
//
//  1. A [Source] gives a snapshot: every pair of target and probe with its last
//     run, its standing result and its next start.
//  2. view.go turns the snapshot into rows of finished text; a number that is
//     not known is a dash, one that cannot be trusted carries its mark.
//  3. page.html draws the rows; /api/v1/pairs gives the same facts as JSON.
//  4. run.html draws runs that have ended, of one pair or one of them with all its numbers.
//  5. runbook.html, at /runbooks/NAME, is the page that an alert's runbook_url names.
//
// GET /probe runs a probe at once and answers with the metrics of that run; it causes load
// and is off unless enabled.
//
// Orders (reload, pause) change the daemon and are off unless enabled.
package web
