/** Reading a TOML file, with a message that names the file and the line where it is broken. */
import { readFileSync, statSync } from "node:fs";
import { CliError, exitCodes } from "./failure.js";

/** Empty where there is no such file. */
export async function tomlIn(file: string): Promise<Record<string, unknown>> {
  try {
    // A pipe would be waited for, for ever.
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return {};
    // Loaded only where there is such a file: most commands find none.
    const { parse } = await import("smol-toml");
    return parse(readFileSync(file, "utf8"));
  } catch (error) {
    const { line, column, message } = error as Error & { line?: number; column?: number };
    const place = line === undefined ? file : `${file}:${line}:${column}`;
    throw new CliError(`${place}: ${message.split("\n")[0]}`, exitCodes.usage);
  }
}
