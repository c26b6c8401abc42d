// Runs the suite in Node, Bun or Deno: takes what it is given as JSON, prints the results as JSON.
import { type Given, runSuite } from "./suite.js";

console.log(JSON.stringify(await runSuite(JSON.parse(process.argv[2] ?? "") as Given)));
// A case that failed may have left a lease that is still renewed.
process.exit();
