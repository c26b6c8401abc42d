/** Reading a TOML file, with a message that names the file and the line where it is broken. */
import { readFileSync, statSync } from "node:fs";
import { CliError, exitCodes } from "./failure.js";

/** Empty where there is no such file. */
export async function tomlIn(file: string): Promise<Record<string, unknown>> {
  try {
    // A pipe would be waited for, for ever.
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return {};
    return await parsed(readFileSync(file, "utf8"));
  } catch (error) {
    throw broken(file, error);
  }
}

/** `name`: what to call it, where it is no file. */
export async function tomlOf(text: string, name: string): Promise<Record<string, unknown>> {
  try {
    return await parsed(text);
  } catch (error) {
    throw broken(name, error);
  }
}

/** Loaded only where there is such a file: most commands find none. */
async function parsed(text: string): Promise<Record<string, unknown>> {
  const { parse } = await import("smol-toml");
  return parse(text);
}

function broken(file: string, error: unknown): CliError {
  const { line, column, message } = error as Error & { line?: number; column?: number };
  const place = line === undefined ? file : `${file}:${line}:${column}`;
  return new CliError(`${place}: ${message.split("\n")[0]}`, exitCodes.usage);
}
