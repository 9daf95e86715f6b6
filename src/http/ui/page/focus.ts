/** Gives the focus to something that has none by itself: a heading, a row. */
function focusOn(element: HTMLElement): void {
  element.tabIndex = -1;
  element.focus({ preventScroll: element.tagName === 'TR' });
}

/** The heading of the view: where reading begins after a move, and where the focus stays when nothing nearer is left. */
export function focusHeading(): void {
  const heading = document.querySelector<HTMLElement>('main h1');
  if (heading !== null) focusOn(heading);
}

/**
 * What has the focus may go away by itself: the row of a VM that somebody else deleted, a verb that does not fit any more. The browser would
 * forget the place then. The row that moved up gets the focus instead, not its buttons: whoever is about to press a key presses none of them.
 */
export function keepFocus(root: HTMLElement): void {
  let held: Element | undefined;
  let row: HTMLTableRowElement | null = null;
  let body: HTMLElement | null = null;
  let index = 0;
  document.addEventListener('focusin', ({ target }) => {
    held = target as Element;
    row = held.closest('tr');
    body = row?.parentElement ?? null;
    index = row?.sectionRowIndex ?? 0;
  });
  const observer = new MutationObserver(() => {
    if (held === undefined || held.isConnected || document.activeElement !== document.body) return;
    const rows = body?.isConnected === true ? [...body.children] : [];
    const near = row?.isConnected === true ? row : (rows[index] ?? rows.at(-1));
    if (near instanceof HTMLElement) focusOn(near);
    else focusHeading();
  });
  observer.observe(root, { childList: true, subtree: true });
}
