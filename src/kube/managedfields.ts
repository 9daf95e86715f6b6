const start = Buffer.from(',"managedFields":[{');
const end = Buffer.from('}]');
const quote = 34;
const comma = 44;
const brace = 125;
const backslash = 92;
const bracket = { opening: 91, closing: 93 } as const;

function isLetter(code: number | undefined): boolean {
  return code !== undefined && ((code >= 97 && code <= 122) || (code >= 65 && code <= 90));
}

/**
 * Whether the list ends before `at`: there follows the next member of the metadata, or of the object. A key inside of the
 * list may hold the same characters, but there a quote closes the key, and no letter follows it.
 */
function isEnd(text: Buffer, at: number): boolean {
  const next = text[at] === brace ? at + 1 : at;
  return text[next] === comma && text[next + 1] === quote && isLetter(text[next + 2]);
}

/**
 * The JSON text of an object without `metadata.managedFields`: it is a third of what a watch tells, read by nobody, and to
 * parse it costs as much as all the rest. The text is shortened in place. Text that is not as kube-apiserver writes it
 * comes back as it is. In fieldsV1 there are no lists, so the first end that is not in a key is that of the list.
 */
export function cutManagedFields(text: Buffer): Buffer {
  const from = text.indexOf(start);
  if (from === -1) return text;
  for (let at = text.indexOf(end, from); at !== -1; at = text.indexOf(end, at + 1)) {
    const after = at + end.length;
    if (isEnd(text, after)) {
      text.copyWithin(from, after);
      return text.subarray(0, text.length - (after - from));
    }
  }
  return text;
}

/** The place behind the list that begins at `from`, brackets in its strings left aside; -1 where it does not end. */
function endOfList(text: Buffer, from: number): number {
  let depth = 0;
  let isInString = false;
  for (let at = from; at < text.length; at += 1) {
    const code = text[at];
    if (isInString) {
      if (code === backslash) at += 1;
      else if (code === quote) isInString = false;
    } else if (code === quote) isInString = true;
    else if (code === bracket.opening) depth += 1;
    else if (code === bracket.closing) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return -1;
}

/**
 * The JSON text of a list without the managedFields of its objects. What follows an object here may be the next one, so that each list of fields is
 * read to its end. The text is shortened in place.
 */
export function cutAllManagedFields(text: Buffer): Buffer {
  let read = 0;
  let written = 0;
  for (let from = text.indexOf(start); from !== -1; from = text.indexOf(start, read)) {
    const after = endOfList(text, from + start.indexOf('['));
    if (after === -1) break;
    written += text.copy(text, written, read, from);
    read = after;
  }
  if (read === 0) return text;
  written += text.copy(text, written, read);
  return text.subarray(0, written);
}
