/**
 * Whoever reads our output may leave early, as `head` does: what is written then is lost, and what the command does goes
 * on, for a lease must still be released. Output that cannot be written otherwise (a full disk) is a failure.
 */
import { exitCodes } from "./failure.js";

export function surviveClosedPipes(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") return;
    process.stderr.write(`holdfast: the output could not be written: ${error.message}\n`);
    process.once("exit", () => {
      process.exitCode ||= exitCodes.storage;
    });
  });
  process.stderr.on("error", () => {});
}
