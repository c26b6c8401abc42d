// Eight processes race for one name, again and again: exactly one may win each time, and the reference at the authority
// must hold that winner's record. Fresh names, and names whose holder has let them expire.
import assert from "node:assert/strict";
import { join } from "node:path";
import { refOfLock } from "../src/engines/git/key-refs.js";
import { type Answer, monotonicMs } from "./git-child.js";
import { git, newRemote, newRepository } from "./git-lab.js";
import { GitChild } from "./git-process.js";
import { space } from "./store-lab.js";

const racersCount = 8;
/** How long before the start the racers are told of it, in ms. */
const headStartMs = 25;
const ttlMs = 1000;
/** Names that expire together, so that the wait for it is paid once for all of them. */
const batchMax = 20;

export type Track = "clones of a remote" | "processes in a clone" | "a clone and its remote" | "worktrees";

interface Ground {
  /** One directory per racer. */
  readonly dirs: readonly string[];
  readonly authority: string;
  /** Where the references are that decide. */
  readonly deciding: string;
  /** What a contender waits beyond the TTL, in ms. */
  readonly marginMs: number;
}

function groundOf(track: Track, dir: string): Ground {
  const same = (at: string): string[] => Array.from({ length: racersCount }, () => at);
  if (track === "clones of a remote") {
    const { bare, clones } = newRemote(dir, racersCount);
    return { dirs: clones, authority: "origin", deciding: bare, marginMs: 2000 };
  }
  if (track === "a clone and its remote") {
    const { bare, clones } = newRemote(dir, 1);
    return { dirs: same(clones[0] ?? ""), authority: "origin", deciding: bare, marginMs: 0 };
  }
  const clone = newRepository(join(dir, "clone"));
  if (track === "processes in a clone")
    return { dirs: same(clone), authority: "local", deciding: clone, marginMs: 0 };
  const trees = same("").map((_, i) => {
    const at = join(dir, `tree-${i}`);
    git(clone, "worktree", "add", "--quiet", "--detach", at);
    return at;
  });
  return { dirs: trees, authority: "local", deciding: clone, marginMs: 0 };
}

/** The record that the authority has. */
export function recordAt(
  deciding: string,
  name: string,
): { token: number; lease: { id: string; owner: string } | null } {
  return JSON.parse(git(deciding, "cat-file", "blob", refOfLock({ space, name })));
}

export interface RaceResult {
  readonly fresh: number;
  readonly takeovers: number;
  /** How often each racer won. */
  readonly wins: Readonly<Record<string, number>>;
}

/** Rejects at the first round that has not exactly one winner. */
export async function race(track: Track, dir: string, rounds: number): Promise<RaceResult> {
  const ground = groundOf(track, dir);
  const racers = await Promise.all(
    ground.dirs.map((at, i) => GitChild.start(at, ground.authority, `racer-${i}`)),
  );
  const wins: Record<string, number> = {};
  const won = ({ principal }: GitChild): void => {
    wins[principal] = (wins[principal] ?? 0) + 1;
  };
  try {
    for (let round = 0; round < rounds; round++) won(await raceFor(`fresh-${round}`, 1, racers, ground));
    for (let from = 0; from < rounds; from += batchMax) {
      const names = Array.from({ length: Math.min(batchMax, rounds - from) }, (_, i) => `old-${from + i}`);
      await letExpire(names, racers, ground);
      for (const name of names) won(await raceFor(name, 2, racers, ground));
    }
  } finally {
    await Promise.all(racers.map((racer) => racer.end()));
  }
  return { fresh: rounds, takeovers: rounds, wins };
}

async function raceFor(
  name: string,
  token: number,
  racers: readonly GitChild[],
  { deciding }: Ground,
): Promise<GitChild> {
  const at = monotonicMs() + headStartMs;
  const answers = await Promise.all(
    racers.map((racer) => racer.ask({ what: "acquire", name, ttlMs: 600_000, at })),
  );
  const told = answers.map(({ answer, error, message }) => answer ?? `${error}: ${message}`);
  const winners = racers.filter((_, i) => typeof told[i] === "number");
  const [winner] = winners;
  assert.ok(winner && winners.length === 1, `${name}: ${winners.length} winners: ${told.join(" | ")}`);
  const losers = new Set(told.filter((answer) => typeof answer !== "number"));
  assert.deepEqual([...losers], [`held by ${winner.principal}`], `${name}: what the others were told`);
  const answer = answers[racers.indexOf(winner)] as Answer;
  assert.equal(answer.answer, token, `${name}: its token`);
  const record = recordAt(deciding, name);
  assert.equal(record.token, token, `${name}: the token at the authority`);
  assert.equal(record.lease?.id, answer.leaseId, `${name}: the authority has the winner's record`);
  return winner;
}

/** All have seen the names held, and their holder has gone on its way. */
async function letExpire(
  names: readonly string[],
  racers: readonly GitChild[],
  ground: Ground,
): Promise<void> {
  const [holder] = racers;
  for (const name of names) assert.equal((await holder?.ask({ what: "acquire", name, ttlMs }))?.answer, 1);
  await Promise.all(racers.map((racer) => racer.ask({ what: "list", name: "old-" })));
  const seenMs = ttlMs + ground.marginMs + 50;
  await new Promise((resolve) => setTimeout(resolve, seenMs));
}
