import { parseMilli } from '../api/quantity.ts';

/** The same few texts come with every event: parsed once. Bounded, since texts come from other people's pods. */
const parsed = new Map<string, number>();
const mostParsed = 10_000;

function milliOf(text: string): number {
  const known = parsed.get(text);
  if (known !== undefined) return known;
  const value = parse(text);
  if (parsed.size >= mostParsed) parsed.clear();
  parsed.set(text, value);
  return value;
}

/** A quantity that is none counts as nothing: kube-apiserver refuses such, so only a lying test server sends it. */
function parse(text: string): number {
  try {
    return Number(parseMilli(text));
  } catch {
    return 0;
  }
}

/** Thousandths of a resource (`cpu`) in a resource list; 0 where it is not named. */
export function milliAmount(list: Readonly<Record<string, string>> | undefined, resource: string): number {
  const text = list?.[resource];
  return text === undefined ? 0 : milliOf(text);
}

/** Whole units of a resource (bytes, devices), rounded up. */
export function wholeAmount(list: Readonly<Record<string, string>> | undefined, resource: string): number {
  return Math.ceil(milliAmount(list, resource) / 1000);
}
