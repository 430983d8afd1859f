// Package store is the memory: runs, their records, acknowledgements and small states
// in one SQLite file, so that a restart forgets nothing and tonight can be laid beside
// last year.
//
// The story of the data: [Store.Add] takes a run apart. Its target, spec and server
// facts are JSON documents that many runs share and that are stored once. Everything
// else but the records is one more document, deflated. The records are columns of
// variable-length numbers, lossless, and can be deleted before the run they belong to.
// [Store.Run] puts the pieces together again; [Store.History] does so for many runs
// without their records.
//
// Durability. The file has a write-ahead log (WAL) with synchronous=FULL: Add returns
// after the log has been written through to the disk, so what was added survives a
// killed process and a lost power supply. A log that ends in the middle of a
// transaction ends before it. Writers that come at once share a transaction.
//
// Who may open it. One daemon owns a folder, by a lock that ends with its process.
// Beside it any number of commands may read, and a few may write (an acknowledgement);
// readers see the file as it was when they began and hold nobody up.
//
// Versions. The schema's version is in the file. An owner brings an older file up to
// date, step by step; a newer one is refused.
//
// Secrets are not stored: values of the type [probes.Secret] are never written,
// wherever they stand, nor the places where people put secrets although they should
// not (see [plainTarget] and [plainSpec]). Prompts and generated texts are not stored
// either.
package store
