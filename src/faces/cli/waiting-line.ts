/**
 * What is shown on standard error while somebody waits in line: who is in the way, since when, and the place. On a
 * terminal it is one line that is drawn again every second, elsewhere a line per change.
 */
import { isatty } from "node:tty";
import { whoIs } from "../../client/errors.js";
import type { Waiting } from "../../client/locks.js";
import { printable } from "../../core/names.js";
import { durationText } from "./output.js";
import { writeStderr } from "./stderr.js";
import { inLine, reasonClause } from "./wording.js";

const redrawMs = 1000;
const columnsMin = 20;
/** Some terminals do not say how wide they are. */
const columnsDefault = 80;

export class WaitingLine {
  readonly #isTerminal = isatty(2);
  #shown = "";
  #timer: NodeJS.Timeout | undefined;

  constructor(readonly name: string) {}

  show(waiting: Waiting): void {
    const shownAt = Date.now();
    if (this.#isTerminal) {
      this.clear();
      this.#draw(waiting, shownAt);
      this.#timer = setInterval(() => this.#draw(waiting, shownAt), redrawMs);
      this.#timer.unref();
      return;
    }
    const text = this.#text(waiting, shownAt);
    // The times in it change always.
    const change = text.replace(/\b\d+[smhd]\b/g, "");
    if (change === this.#shown) return;
    this.#shown = change;
    writeStderr(`${text}\n`);
  }

  /** Before anything else is written. */
  clear(): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    writeStderr("\r\x1b[K");
  }

  #draw(waiting: Waiting, shownAt: number): void {
    const columns = Math.max(columnsMin, process.stderr.columns || columnsDefault);
    writeStderr(`\r\x1b[K${this.#text(waiting, shownAt).slice(0, columns - 1)}`);
  }

  #text(waiting: Waiting, shownAt: number): string {
    return printable(`Waiting for ${this.name}: ${wordsFor(waiting, Date.now() - shownAt)}`);
  }
}

/** `agoMs`: when that was known. */
function wordsFor(waiting: Waiting, agoMs: number): string {
  switch (waiting.status) {
    case "trouble":
      return `${waiting.error.message} Trying again.`;
    case "delayed":
      if ((waiting as { availableAt?: Date }).availableAt === undefined) return "earlier waiters go first";
      return `nobody may take it for another ${durationText(waiting.retryAfterMs - agoMs)} (its last holder disappeared)`;
    case "held": {
      const { holder, expiresInMs, position, metadata } = waiting;
      const since = durationText(Date.now() - holder.since.getTime());
      const place = position === undefined ? "" : `, place ${position} of ${inLine(waiting)} in line`;
      // Its holder may have renewed it since this was known.
      const left = expiresInMs - agoMs;
      const until = left > 0 ? `, expires in ${durationText(left)} unless renewed` : "";
      // What it is for comes last: a narrow terminal cuts it off, not the place in line.
      const who = whoIs(holder.principal, holder.owner);
      return `held by ${who} for ${since}${place}${until}${reasonClause(metadata)}`;
    }
  }
}
