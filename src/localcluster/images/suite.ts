/** The release of Debian that a Containerfile builds on: the tag of its `ARG BASE=…` without its variant. */
export function suiteOf(containerfile: string): string {
  return /^ARG BASE=\S+:(\w+)/m.exec(containerfile)?.[1] ?? '';
}
