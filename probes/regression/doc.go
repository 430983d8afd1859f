// Package regression says whether a target has become slower since last week: it
// judges nights against nights.
//
// The story of the data:
//
//  1. A run that can be believed gives one value per metric ([SampleOf]). Requests of
//     one run share its batch and its queue, so that no number of them says how far
//     two runs may lie apart; only nights are ever tested against nights.
//  2. The runs of one calendar day become one night, whose value is their median
//     ([Nights]). A day without a run that can be believed is missing, never zero.
//  3. A night's value becomes y = direction * ln(value): up is always worse, and a
//     shift of y is a ratio of values.
//  4. [Detect] walks over the nights of one fingerprint. It knows nothing but them, so
//     that everything it says can be computed again from stored runs, after a restart
//     as before it. Its memory is a list of accepted nights, of which the latest are
//     compared with the ones before: by a scan over the last 2 to 15 nights, by a fast
//     rule for two nights that leave no doubt, and against an anchor for what creeps.
//     A regression freezes the baseline until it recovers or somebody accepts it; an
//     improvement moves it at once, so that losing the improvement is a regression.
//  5. Failed requests are counts, not logarithms; [detectRate] compares those.
//  6. [Judge] does this for all metrics of a pair and says it in the vocabulary's
//     words ([probes.Change]), with the change of the server's version that fell
//     between the last good night and the first bad one.
//  7. [Incidents] groups what happened to many targets, and [Outliers] finds the
//     replica that differs from its pool.
//
// What the parameters promise has been measured: see SIMULATION.md, which a test
// writes.
package regression
