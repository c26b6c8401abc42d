/**
 * What an engine must be able to do so that its data can be carried to another: be sealed, be read from beginning to end, and be
 * filled while nobody may use it. And the words that stand in the place of data that is not to be used, which every reading and every
 * commit finds: where it has gone, or that it is not complete yet.
 */
import type { Key } from "../core/keys.js";
import type { AnyRecord } from "../core/records.js";
import { MovedError, StoreError } from "./store.js";

export interface Stored {
  readonly key: Key;
  readonly record: AnyRecord;
}

/** Data that is to be carried elsewhere. */
export interface Source {
  /** For people, without secrets. */
  readonly location: string;
  /** Tells this data from any other. */
  readonly epoch: string;
  /** The word that stands in its place; null: it is in use. */
  closed(): Promise<string | null>;
  /** Puts a word in its place for ever; resolves to the one that counts, which is the first. */
  seal(word: string): Promise<string>;
  /** Engine time once it is sealed: never ahead of what its leases were measured by. */
  clock(): Promise<number>;
  /** Records with keys above `after`, in order of keys, at most `limit`; fewer only at the end. */
  page(after: Key, limit: number): Promise<readonly Stored[]>;
  close(): Promise<void>;
}

/** What a place that is to be filled holds now. */
export interface Found {
  /** The word in its place; null: it can be used. */
  readonly closed: string | null;
  /** The word of the migration that once filled it; null: none did. */
  readonly origin: string | null;
  /** What is there already, apart from what servers write by themselves; null: nothing. */
  readonly occupant: Key | null;
  /** A server is using it. */
  readonly isServed: boolean;
}

/** What was carried, all in all. */
export interface Arrived {
  /** Engine time from which leases go on. */
  readonly clock: number;
  /** The highest fencing token. */
  readonly tokenHigh: number;
  readonly records: number;
}

/** Where data is to be carried to. */
export interface Target {
  readonly location: string;
  readonly epoch: string;
  look(): Promise<Found>;
  /**
   * Puts the word in the place of nothing, so that no server uses it before it is complete. In one step, with which what servers wrote by
   * themselves goes; refused if anything else has come meanwhile.
   */
  begin(word: string): Promise<void>;
  /** With their index entries, over what is there, and only if the word still stands. Durable when it resolves. */
  put(word: string, records: readonly Stored[]): Promise<void>;
  /** Opens it to servers, in one step: with another feed than before, and the word kept as its origin. */
  finish(word: string, arrived: Arrived): Promise<void>;
  close(): Promise<void>;
}

/** What keys begin with that servers write by themselves, in order: a place with nothing else in it is empty. */
export const ownPrefixes = ["anchors/", "line/", "peer/"] as const;

/** Of servers that run, not of the data: not carried. */
export const isPassing = (key: Key): boolean => /^(?:line|peer)\//.test(key);

const arrivingForm = /^migration ([0-9a-f]{8}) of (\S+)$/;

/** The word of a migration: in the place of its target until that is complete, and its origin afterwards. */
export const arrivingWord = (id: string, sourceEpoch: string): string => `migration ${id} of ${sourceEpoch}`;

/** The word in the place of its source. */
export const movedWord = (location: string, id: string): string => `${location} (migration ${id})`;

/** Whose word it is, if it is one of a migration into the data. */
export function readArriving(word: string | null): { id: string; sourceEpoch: string } | null {
  const [, id, sourceEpoch] = arrivingForm.exec(word ?? "") ?? [];
  return id === undefined || sourceEpoch === undefined ? null : { id, sourceEpoch };
}

/** What whoever wants to use the data is told. */
export function refuseClosed(location: string, word: string | null): void {
  if (word === null) return;
  if (readArriving(word) === null)
    throw new MovedError(
      `the data in ${location} was moved to ${word}: point servers there, or run the same holdfast migrate again if it did not finish`,
    );
  throw new StoreError(
    "unavailable",
    `the data in ${location} is not complete: a migration into it has not ended; run the same holdfast migrate again`,
  );
}

/** Another has changed the target meanwhile: nothing more is put there. */
export const disturbed = (location: string): StoreError =>
  new StoreError(
    "unavailable",
    `another migration into ${location} has ended, or it was changed by hand: nothing more was written; run this again to see`,
  );

/** A database that took over from another may lack what was put there before. */
export const incomplete = (location: string, found: number, { records }: Arrived): StoreError =>
  new StoreError(
    "unavailable",
    `${location} has ${found} records, and ${records} were put there: it was not opened; run this again`,
  );
