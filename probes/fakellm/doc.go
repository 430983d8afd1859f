// Package fakellm is a simulated inference engine that is good enough to be
// measured: it batches, queues, caches prefixes, speculates and fails the way
// real engines do, and it knows the truth about every answer it gave.
//
// The story of a request:
//
//  1. The [Engine.Handler] reads the whole body; that instant is Received. The
//     prompt becomes token ids (see [CountTokens]), the fault table is consulted.
//  2. The request joins a FIFO queue. At each step boundary prompts are admitted
//     while slots are free. Admitted prompts are prefilled together in one step
//     that blocks everybody else (no chunking, prefill before decode, as SGLang
//     schedules by default); its end brings each of them its first token. A
//     step without admissions is a decode step: one token for every running
//     sequence, or several when speculating.
//  3. Step lengths come from the [Config] and lie on an absolute schedule: a step
//     starts where the one before ended, however late the process woke up, so
//     nothing drifts.
//  4. At a step's end every sequence gets one token event, which the handler
//     writes and flushes on its own, in the wire shape of the route.
//  5. [Engine.Stats] tells when each event was really written; the /metrics page
//     shows the same numbers under the engine's own names.
//
// One core is behind all [Engines]. A flavour adds the surface: ways in, wire
// shapes, errors in band and as HTTP status, information and metrics pages, each
// in that engine's own words. Where an engine knows no ignore_eos, answers end
// when they end; a large MeanOutputTokens makes all of them as long as was asked.
//
// With a [Script] steps 2 and 3 are bypassed: first token and gaps come at
// written-down times, so every percentile is known before the first request.
//
// There is nothing to start or to close: steps are driven by timers, which exist
// only while there is work. Inside a testing/synctest bubble (over
// [NewPipeListener] or a [Network]) all times are exact; requests that arrive at one instant are
// admitted together. For one seed and one order of arrival the engine does the
// same thing every time.
package fakellm
