// Lists that come in pages.

const LIMIT = 200;
const PAGES_MAX = 25;

/** All items of a list, up to 5,000. */
export async function allOf(api, path, member) {
  const found = [];
  let cursor = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer = await api.get(`${path}?limit=${LIMIT}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    found.push(...answer[member]);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  return found;
}
