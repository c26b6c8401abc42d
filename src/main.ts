#!/usr/bin/env node
/** The program `holdfast`. */
import { run } from "./faces/cli/program.js";

process.exitCode = await run(process.argv.slice(2));
