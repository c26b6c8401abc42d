// One operation beside the echo server: warm both up, then rounds of one run each with the same request bytes, so
// that what the machine does to one it does to the other. Which of the two goes first changes from round to round,
// because the place in a round may itself make a difference. Each round gives a ratio; medians count.

import { median, type Row, rateOf, type Speed } from "./findings.js";
import type { Lab } from "./lab.js";
import type { Tally, Work } from "./orders.js";
import { quiet } from "./proc.js";
import type { Target } from "./server.js";

const WARM_UP_SECONDS = 2;

export interface Comparison {
  readonly label: string;
  readonly holdfast: Target;
  readonly echo: Target;
  /** The work of a round (0 is the warm-up): the same bytes for both, with names no other round used. */
  work(round: number, target: Target): Work;
  /** The outcomes that count as done. */
  readonly good: readonly string[];
  readonly connections?: number;
  readonly seconds?: number;
}

export async function compare(lab: Lab, comparison: Comparison): Promise<Row> {
  const { holdfast, echo, good, label } = comparison;
  const seconds = comparison.seconds ?? lab.options.seconds;
  const connections = comparison.connections ?? 64;
  const once = async (target: Target, round: number, length: number) =>
    lab.run(target, comparison.work(round, target), { connections, seconds: length }, good);

  lab.say(`${label}: warming up`);
  await once(echo, 0, WARM_UP_SECONDS);
  await once(holdfast, 0, WARM_UP_SECONDS);

  const rounds: Round[] = [];
  for (let round = 1; round <= lab.options.rounds; round += 1) {
    const tallies = new Map<Target, Tally>();
    for (const target of inTurn([echo, holdfast], round)) {
      // What the server still does after the load (checkpoints, expiry) must not slow the next run down.
      await quiet(holdfast.pid);
      tallies.set(target, await once(target, round, seconds));
    }
    const bare = tallies.get(echo);
    const mine = tallies.get(holdfast);
    if (bare === undefined || mine === undefined) throw new Error("a round without both runs");
    rounds.push({ bare, mine });
    const [mineRate, bareRate] = [rateOf(mine, good), rateOf(bare, good)].map(Math.round);
    lab.say(`${label}: round ${round}: ${mineRate}/s, echo ${bareRate}/s`);
  }
  return rowOf(label, rounds, good);
}

/** The same things, the other way round in every second round. */
export function inTurn<T>(things: readonly T[], round: number): T[] {
  return round % 2 === 1 ? [...things] : [...things].reverse();
}

interface Round {
  readonly bare: Tally;
  readonly mine: Tally;
}

function rowOf(label: string, rounds: readonly Round[], good: readonly string[]): Row {
  const ratios = rounds.map(({ mine, bare }) => rateOf(mine, good) / rateOf(bare, good));
  return {
    label,
    echo: speedOf(
      rounds.map(({ bare }) => bare),
      good,
    ),
    holdfast: speedOf(
      rounds.map(({ mine }) => mine),
      good,
    ),
    ratio: median(ratios),
    ratioLowest: Math.min(...ratios),
    ratioHighest: Math.max(...ratios),
    loadShare: median(rounds.map(({ bare }) => bare.cpuMs / bare.elapsedMs)),
    p99Ratio: median(rounds.map(({ mine, bare }) => mine.p99Ms / bare.p99Ms)),
  };
}

function speedOf(tallies: readonly Tally[], good: readonly string[]): Speed {
  return {
    perSecond: median(tallies.map((tally) => rateOf(tally, good))),
    p50Ms: median(tallies.map((tally) => tally.p50Ms)),
    p99Ms: median(tallies.map((tally) => tally.p99Ms)),
  };
}
