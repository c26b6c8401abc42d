// What the faults of the network share: some of the requests that change something meet a fate until the end.
import { seen } from "../proofs.js";
import type { Fate, Request, Struck } from "../proxy.js";
import type { Scene } from "./fault.js";

/** Gives this share of the calls a fate. When it resolves every request passes again, and none is left over. */
export async function strikeSome(
  scene: Scene,
  over: AbortSignal,
  share: number,
  fateOf: () => Fate,
  /** Whether it came about, by what the proxy saw. */
  tookEffect: (struck: Struck) => boolean,
): Promise<void> {
  scene.proxy.onStruck = (struck) => {
    scene.struck({ from: struck.began, to: struck.ended }, seen(tookEffect(struck)));
  };
  scene.proxy.fateOf = (request) =>
    isChange(request) && scene.random() < share ? fateOf() : { kind: "pass" };
  await new Promise<void>((resolve) => over.addEventListener("abort", () => resolve(), { once: true }));
  scene.proxy.fateOf = () => ({ kind: "pass" });
  await scene.proxy.settled();
}

const isChange = ({ method, path }: Request): boolean =>
  method === "POST" &&
  /^(?:\/locks\/[^/]+\/(?:acquire|renew|release)|\/v1\/(?:nodes\/[^/]+\/\w+|queue\/next))$/.test(path);
