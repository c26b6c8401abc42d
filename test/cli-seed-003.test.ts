// The guide's examples against a server.
import { describeGuide } from "./cli-guide.js";
import { openLab } from "./cli-lab.js";

describeGuide("at a server", async () => {
  const lab = await openLab();
  return {
    ...lab,
    owner: "runner-1",
    other: "runner-2",
    nonce: /^ls_/,
    inRepository: "git init -q repo && cd repo",
    script: (text, env, who) => lab.script(text, { ...env, ...(who && { HOLDFAST_TOKEN: "secret-b" }) }),
  };
});
