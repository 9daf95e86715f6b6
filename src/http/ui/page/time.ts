/** A time of the API as people read it here. */
export function timeOf(text: string | undefined): string {
  if (text === undefined) return '–';
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : time.toLocaleString();
}
