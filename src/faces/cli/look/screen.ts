/**
 * A picture on a terminal that is drawn again and again. It has the terminal's second screen to itself, so that a
 * resize cannot garble it, and gives everything back however it ends; Ctrl-Z and fg included.
 */
import { constants } from "node:os";

const enter = "\x1b[?1049h\x1b[?25l";
const leave = "\x1b[?25h\x1b[?1049l";
const home = "\x1b[H";
const clearToEndOfLine = "\x1b[K";
const clearBelow = "\x1b[J";

/** Whether a picture can be drawn: not in a pipe, nor on a terminal that knows no movements. */
export const canDraw = (): boolean => process.stdout.isTTY === true && process.env["TERM"] !== "dumb";

/** Never in a pipe, nor where NO_COLOR says so. */
const hasColour = (): boolean => canDraw() && !process.env["NO_COLOR"];

export const bold = (text: string): string => (hasColour() ? `\x1b[1m${text}\x1b[22m` : text);

export interface Room {
  readonly columns: number;
  readonly rows: number;
}

export class Screen {
  #isOpen = false;
  readonly #stop = new AbortController();
  #code: number | null = null;

  /** `draw` is called where the picture must be drawn without anything having changed: another size, `fg`. */
  constructor(readonly draw: () => void) {}

  /** Aborted when a signal asks to end. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** As a shell counts: 130 after Ctrl-C. */
  get exitCode(): number {
    return this.#code ?? 0;
  }

  get room(): Room {
    const { columns, rows } = process.stdout;
    // A terminal that does not say how large it is counts as the usual one. Its last column stays free: what is
    // written there makes some terminals begin a line.
    return { columns: (columns || 80) - 1, rows: rows || 24 };
  }

  open(): void {
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, this.#onEnd);
    process.on("SIGTSTP", this.#onPause);
    process.on("SIGCONT", this.#onResume);
    process.stdout.on("resize", this.draw);
    // Whatever ends the program, the terminal must be usable afterwards.
    process.on("exit", this.#giveBack);
    this.#take();
  }

  close(): void {
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.off(name, this.#onEnd);
    process.off("SIGTSTP", this.#onPause);
    process.off("SIGCONT", this.#onResume);
    process.stdout.off("resize", this.draw);
    process.off("exit", this.#giveBack);
    this.#giveBack();
  }

  show(lines: readonly string[]): void {
    if (!this.#isOpen) return;
    const shown = lines.slice(0, this.room.rows);
    process.stdout.write(home + shown.map((line) => `${line}${clearToEndOfLine}`).join("\r\n") + clearBelow);
  }

  #take(): void {
    this.#isOpen = true;
    process.stdout.write(enter);
  }

  readonly #giveBack = (): void => {
    if (this.#isOpen) process.stdout.write(leave);
    this.#isOpen = false;
  };

  readonly #onEnd = (name: NodeJS.Signals): void => {
    this.#code = 128 + (constants.signals[name] ?? 0);
    this.#stop.abort();
  };

  readonly #onPause = (): void => {
    this.#giveBack();
    process.kill(process.pid, "SIGSTOP");
  };

  readonly #onResume = (): void => {
    if (!this.#isOpen) this.#take();
    this.draw();
  };
}
