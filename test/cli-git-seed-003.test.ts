// The guide's examples in a clone of a bare repository, with no server: every lock is decided there.
import { actorOf, openGitLab } from "./cli-git-lab.js";
import { describeGuide } from "./cli-guide.js";

describeGuide("in a repository with a bare remote", async () => {
  const lab = openGitLab();
  const [mine, others] = [lab.clone("mine"), lab.clone("others")];
  return {
    dir: lab.dir,
    owner: await actorOf(mine),
    other: await actorOf(others),
    nonce: /^[0-9a-f]{64}$/,
    inRepository: "git rev-parse --git-dir > ../git-dir.txt",
    command: lab.command,
    script: (text, env, who) => (who === "other" ? others : mine).script(text, env),
    holderOf: (name) => mine.holderOf(name),
    [Symbol.asyncDispose]: async () => {},
  };
});
