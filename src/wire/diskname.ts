/** A text as the name of an Image or ISO, as near as its grammar lets it be: in lower case, whatever else stands between letters and digits as one sign. */
export function diskNameFrom(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, (signs) => (signs.includes('.') ? '.' : '-'))
    .replaceAll(/^[.-]|[.-]$/g, '');
}

/** The same, no longer than a name may be; empty where nothing of the text can be in a name. */
export function shortDiskName(text: string): string {
  return diskNameFrom(diskNameFrom(text).slice(0, 63));
}
