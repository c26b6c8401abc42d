// What the faults of the network share: some of the requests that change something meet a fate until the end.
import { seen } from "../proofs.js";
import type { Fate, Request, Struck } from "../proxy.js";
import type { Node, Scene } from "./fault.js";

/** Gives this share of the calls a fate. When it resolves every request passes again, and none is left over. */
export async function strikeSome(
  scene: Scene,
  over: AbortSignal,
  share: number,
  fateOf: () => Fate,
  /** Whether it came about, by what the proxy saw. */
  tookEffect: (struck: Struck, node: Node) => boolean,
): Promise<void> {
  for (const node of scene.nodes) {
    node.proxy.onStruck = (struck) => {
      scene.struck({ from: struck.began, to: struck.ended }, seen(tookEffect(struck, node)));
    };
    node.proxy.fateOf = (request) =>
      isChange(request) && scene.random() < share ? fateOf() : { kind: "pass" };
  }
  await new Promise<void>((resolve) => over.addEventListener("abort", () => resolve(), { once: true }));
  for (const { proxy } of scene.nodes) proxy.fateOf = () => ({ kind: "pass" });
  await Promise.all(scene.nodes.map(({ proxy }) => proxy.settled()));
}

const isChange = ({ method, path }: Request): boolean =>
  method === "POST" &&
  /^(?:\/locks\/[^/]+\/(?:acquire|renew|release)|\/v1\/(?:nodes\/[^/]+\/\w+|queue\/next))$/.test(path);
