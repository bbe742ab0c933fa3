// A list of which only the visible rows are elements: it may have any number of rows of one height.

const ROWS_AROUND = 8;

class List {
  /** `fill(row, element)` puts a row into its element; `choose(row)` is called when the user clicks it. */
  constructor(element, rowHeight, fill, choose) {
    this.element = element;
    this.rowHeight = rowHeight;
    this.fill = fill;
    this.rows = [];
    this.current = -1;
    this.inner = document.createElement("div");
    this.inner.className = "rows";
    element.replaceChildren(this.inner);
    element.addEventListener("scroll", () => this.draw());
    element.addEventListener("click", (event) => {
      const row = event.target.closest("[data-place]");
      if (row) choose(this.rows[Number(row.dataset.place)]);
    });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  show(rows) {
    this.rows = rows;
    this.inner.style.height = rows.length * this.rowHeight + "px";
    this.draw();
  }

  /** Marks the row that is current, and scrolls it into view. */
  mark(place) {
    this.current = place;
    const top = place * this.rowHeight, { scrollTop, clientHeight } = this.element;
    if (place >= 0 && (top < scrollTop || top + this.rowHeight > scrollTop + clientHeight))
      this.element.scrollTop = Math.max(0, top - clientHeight / 3);
    this.draw();
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - ROWS_AROUND);
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + ROWS_AROUND);
    const drawn = [];
    for (let place = first; place < last; place++) {
      const row = make("div", "row");
      row.style.transform = `translateY(${place * this.rowHeight}px)`;
      row.style.height = this.rowHeight + "px";
      row.dataset.place = place;
      row.classList.toggle("current", place === this.current);
      this.fill(this.rows[place], row);
      drawn.push(row);
    }
    this.inner.replaceChildren(...drawn);
  }
}

/** An element with a class, a text and children. */
function make(tag, className = "", text = "", ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}
