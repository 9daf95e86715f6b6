/** An address and a port as people and URLs write them: an IPv6 address stands in brackets. */
export function endpoint(address: string, port: number | string): string {
  return `${address.includes(':') ? `[${address}]` : address}:${port}`;
}
