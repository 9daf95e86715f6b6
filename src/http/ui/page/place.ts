/** Views of the page, as its fragment names them: `#/vms/team/web`. */
const views = [
  'vms',
  'deploy',
  'pools',
  'images',
  'isos',
  'nodes',
  'configs',
  'credentials',
  'accounts',
] as const;
export type View = (typeof views)[number];

export interface Place {
  readonly view: View;
  readonly parts: readonly string[];
}

/** What a fragment leads to; the VMs where it leads nowhere, a view where it names nothing in it. */
export function placeOf(fragment: string): Place {
  const [view = '', ...parts] = fragment.replace(/^#\/?/, '').split('/').map(decoded);
  const known = views.find((name) => name === view);
  return known === undefined || parts.includes('')
    ? { view: known ?? 'vms', parts: [] }
    : { view: known, parts };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
}

export function linkTo(view: View, ...parts: readonly string[]): string {
  return `#/${[view, ...parts.map(encodeURIComponent)].join('/')}`;
}

/** The code of `svc3 ui` in a fragment. */
export function codeIn(fragment: string): string | undefined {
  return /^#code=([\w-]+)$/.exec(fragment)?.[1];
}
