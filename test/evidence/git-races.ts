// Eight processes race for one name in a repository, round after round: in clones of a remote, in one clone and in its
// worktrees. Each round has one winner, or the track is red.
import { race, type Track } from "../git-races.js";
import { temporaryDir } from "../server.js";
import type { Engine } from "./engines.js";

/** By the engine whose promise it is. */
const tracks: readonly (readonly [engine: string, track: Track])[] = [
  ["git", "clones of a remote"],
  ["git", "a clone and its remote"],
  ["git-local", "processes in a clone"],
  ["git-local", "worktrees"],
];

/** Why it is red; empty when it is green. */
export async function runGitRaces(
  engines: readonly Engine[],
  rounds: number,
  say: (line: string) => void,
): Promise<string[]> {
  const reasons: string[] = [];
  for (const [engine, track] of tracks) {
    if (!engines.some(({ name }) => name === engine)) continue;
    try {
      const { fresh, takeovers, wins } = await race(track, temporaryDir("holdfast-races-"), rounds);
      const winners = Object.keys(wins).length;
      say(
        `${track}: ${fresh} fresh, ${takeovers} takeovers, one winner in each; ${winners} racers won some of them`,
      );
      if (winners < 2) reasons.push(`${track}: a race that always the same one wins is none`);
    } catch (error) {
      reasons.push(`${track}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return reasons;
}
