// SPDX-License-Identifier: GPL-2.0

//! Counts and times on a terminal: a table that is drawn anew as they change, a histogram, and
//! keys.

#![deny(unsafe_code)]

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::io::Stdout;
use std::time::Duration;

use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event;
use ratatui::crossterm::event::KeyCode;
use ratatui::crossterm::event::KeyEvent;
use ratatui::crossterm::event::KeyEventKind;
use ratatui::crossterm::event::KeyModifiers;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal;
use ratatui::layout::Constraint;
use ratatui::layout::Layout;
use ratatui::style::Style;
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::text::Text;
use ratatui::widgets::Paragraph;

use super::sums::Columns;
use super::sums::Sums;
use crate::text::printable;

/// Rows that a page has more than what is seen at once of two.
const OVERLAP: usize = 1;

/// By what rows are sorted, the greatest first, but for the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The time of all, or the sum of the values, or without either the hits.
    #[default]
    Total,
    /// The hits.
    Hits,
    /// The least value.
    Min,
    /// The mean time, or the average value.
    Mean,
    /// The longest time, or the greatest value.
    Max,
    /// The key.
    Key,
}

impl Sort {
    fn next(self, columns: Columns) -> Self {
        match self {
            Self::Total if columns != Columns::Hits => Self::Hits,
            Self::Hits if columns == Columns::Values => Self::Min,
            Self::Hits | Self::Min => Self::Mean,
            Self::Mean => Self::Max,
            Self::Total | Self::Max => Self::Key,
            Self::Key => Self::Total,
        }
    }

    fn name(self, columns: Columns) -> &'static str {
        match self {
            Self::Total if columns == Columns::Times => "total",
            Self::Total if columns == Columns::Values => "sum",
            Self::Total | Self::Hits => "hits",
            Self::Min => "min",
            Self::Mean if columns == Columns::Values => "avg",
            Self::Mean => "mean",
            Self::Max => "max",
            Self::Key => "key",
        }
    }

    /// Sorts rows.
    pub fn sort(self, rows: &mut [(&Vec<String>, &Sums)]) {
        let total = |one: &Sums| (one.values.sum, one.times.total, one.times.calls);
        let mean = |one: &Sums| (one.values.tenths(), one.times.mean());
        let max = |one: &Sums| (one.values.max, one.times.max);
        // A key without a least value comes last.
        let min = |one: &Sums| (one.values.min.is_none(), one.values.min);
        rows.sort_by(|(key, sums), (other_key, other)| {
            let order = match self {
                Self::Total => total(other).cmp(&total(sums)),
                Self::Hits => other.times.calls.cmp(&sums.times.calls),
                Self::Min => min(sums).cmp(&min(other)),
                Self::Mean => mean(other).cmp(&mean(sums)),
                Self::Max => max(other).cmp(&max(sums)),
                Self::Key => key.cmp(other_key),
            };
            order.then(key.cmp(other_key))
        });
    }
}

/// Choices of the user.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The order.
    pub sort: Sort,
    /// True if the display is paused.
    pub is_paused: bool,
    /// Rows that are left out above.
    first: usize,
    /// Rows that there is room for.
    room: usize,
}

/// Contents of the screen.
pub struct View<'a> {
    /// Of what keys are made.
    pub names: Vec<&'a str>,
    /// All rows, in their order.
    pub rows: Vec<(&'a Vec<String>, &'a Sums)>,
    /// Columns of the rows, before the key.
    pub columns: Columns,
    /// How long that took, and so on.
    pub status: String,
    /// A line for each bar.
    pub bars: String,
}

impl State {
    /// Does what a key means. Returns whether to go on.
    pub fn key(&mut self, key: KeyEvent, columns: Columns) -> bool {
        let page = self.room.saturating_sub(OVERLAP).max(1);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('s') => self.sort = self.sort.next(columns),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Down | KeyCode::Char('j') => self.first = self.first.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::PageDown => self.first = self.first.saturating_add(page),
            KeyCode::PageUp => self.first = self.first.saturating_sub(page),
            KeyCode::Home => self.first = 0,
            _ => (),
        }
        true
    }
}

/// Draws all of the screen.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, view: &View<'_>) {
    let bars = u16::try_from(view.bars.lines().count()).unwrap_or(u16::MAX);
    // The table has at least half of it.
    let bars = bars.min(frame.area().height / 2);
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(bars),
        Constraint::Length(1),
    ]);
    let [status, head, table, histogram, help] = areas.areas(frame.area());
    let paused = if state.is_paused { "  PAUSED" } else { "" };
    frame.render_widget(
        Line::from(format!("{}{paused}", view.status)).bold(),
        status,
    );
    let columns_head = view.columns.heads();
    let names = view.names.join(" ");
    frame.render_widget(
        Line::styled(format!("{columns_head}  {names}"), Style::new().reversed()),
        head,
    );
    state.room = table.height.into();
    // The last page stays full.
    state.first = state.first.min(view.rows.len().saturating_sub(state.room));
    let rows = view.rows.iter().skip(state.first).take(state.room);
    let rows = rows
        .map(|(key, sums)| Line::from(format!("{}  {}", view.columns.row(sums), key.join(" "))));
    frame.render_widget(Paragraph::new(rows.collect::<Vec<_>>()), table);
    frame.render_widget(Text::from(view.bars.as_str()), histogram);
    let sorted = state.sort.name(view.columns);
    let help_line = format!(
        "q quit   s sort ({sorted})   p pause   \u{2191}\u{2193} {} of {}",
        state.first + usize::from(!view.rows.is_empty()),
        view.rows.len()
    );
    frame.render_widget(Line::from(help_line).dim(), help);
    // Not all widgets leave out what a terminal takes for commands.
    for cell in &mut frame.buffer_mut().content {
        if let Cow::Owned(_) = printable(cell.symbol()) {
            cell.set_symbol("?");
        }
    }
}

/// The terminal, which is as it was when this is dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Choices of the user.
    pub state: State,
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Screen {
    /// Takes the terminal.
    pub fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let open = || {
            execute!(io::stdout(), terminal::EnterAlternateScreen)?;
            Terminal::new(CrosstermBackend::new(io::stdout()))
        };
        match open() {
            Ok(terminal) => Ok(Self {
                terminal,
                state: State::default(),
            }),
            Err(error) => {
                terminal::disable_raw_mode()?;
                Err(error)
            }
        }
    }

    /// Does what keys mean that were pressed. Returns whether to go on, and whether there is
    /// something to be drawn anew.
    pub fn input(&mut self, columns: Columns) -> io::Result<(bool, bool)> {
        let mut any = false;
        while event::poll(Duration::ZERO)? {
            any = true;
            let event::Event::Key(key) = event::read()? else {
                continue;
            };
            if key.kind != KeyEventKind::Release && !self.state.key(key, columns) {
                return Ok((false, true));
            }
        }
        Ok((true, any))
    }

    /// Draws.
    pub fn draw(&mut self, view: &View<'_>) -> io::Result<()> {
        let state = &mut self.state;
        self.terminal
            .draw(|frame| draw(frame, state, view))
            .map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing is left to be done if the terminal has gone.
        let _ = self.terminal.show_cursor();
        let _ = execute!(io::stdout(), terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;

    fn stats(times: &[u64]) -> Sums {
        let mut stats = Sums::default();
        for time in times {
            stats.add_time(*time);
        }
        stats
    }

    fn shown(state: &mut State, rows: &[(Vec<String>, Sums)], height: u16) -> Vec<String> {
        shown_in(state, rows, (78, height))
    }

    fn shown_in(
        state: &mut State,
        rows: &[(Vec<String>, Sums)],
        (width, height): (u16, u16),
    ) -> Vec<String> {
        let mut rows: Vec<_> = rows.iter().map(|(key, stats)| (key, stats)).collect();
        state.sort.sort(&mut rows);
        let view = View {
            names: vec!["comm", "place"],
            rows,
            columns: Columns::Times,
            status: "1.0 s: 6 hits, 0 dropped".to_owned(),
            bars: "a ###\nb #\n".to_owned(),
        };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state, &view)).unwrap();
        let text = terminal.backend().to_string();
        text.lines()
            .map(|line| line.trim_matches('"').trim_end().to_owned())
            .collect()
    }

    fn rows() -> Vec<(Vec<String>, Sums)> {
        let key = |comm: &str| vec![comm.to_owned(), "f".to_owned()];
        vec![
            (key("cat"), stats(&[3000, 3000])),
            (key("awk"), stats(&[9000])),
            (key("sed"), stats(&[1000, 1000, 1000])),
        ]
    }

    fn press(state: &mut State, code: KeyCode) -> bool {
        state.key(KeyEvent::new(code, KeyModifiers::NONE), Columns::Times)
    }

    #[test]
    fn a_table_with_a_histogram() {
        let lines = shown(&mut State::default(), &rows(), 9);
        assert_eq!(
            lines,
            [
                "1.0 s: 6 hits, 0 dropped",
                "      hits       total        mean         max         p99  comm place",
                "         1    9.000 us    9.000 us    9.000 us    9.000 us  awk f",
                "         2    6.000 us    3.000 us    3.000 us    3.000 us  cat f",
                "         3    3.000 us    1.000 us    1.000 us    1.000 us  sed f",
                "",
                "a ###",
                "b #",
                "q quit   s sort (total)   p pause   \u{2191}\u{2193} 1 of 3",
            ]
        );
    }

    #[test]
    fn names_are_no_commands() {
        let key = vec!["\x1b[2J\u{9b}m\u{202e}x".to_owned()];
        let lines = shown(&mut State::default(), &[(key, stats(&[3000]))], 9);
        let text = lines.join("\n");
        let is_bad = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(text.contains("[2J") && !text.contains(is_bad), "{text:?}");
    }

    #[test]
    fn keys() {
        let mut state = State::default();
        let order = |state: &mut State| -> String {
            let lines = shown(state, &rows(), 9);
            let rows = lines.iter().filter(|line| line.ends_with(" f"));
            rows.filter_map(|line| line.chars().rev().nth(4)).collect()
        };
        let mut orders = Vec::new();
        for _ in 0..6 {
            orders.push((state.sort, order(&mut state)));
            assert!(press(&mut state, KeyCode::Char('s')));
        }
        // The first letters: awk, cat, sed.
        let expected = [
            (Sort::Total, "acs"),
            (Sort::Hits, "sca"),
            (Sort::Mean, "acs"),
            (Sort::Max, "acs"),
            (Sort::Key, "acs"),
            (Sort::Total, "acs"),
        ];
        assert_eq!(
            orders,
            expected.map(|(sort, order)| (sort, order.to_owned()))
        );
        assert!(press(&mut state, KeyCode::Char('p')) && state.is_paused);
        assert!(shown(&mut state, &rows(), 9)[0].ends_with("  PAUSED"));
        assert!(press(&mut state, KeyCode::Char(' ')) && !state.is_paused);
        assert!(!press(&mut state, KeyCode::Char('q')) && !press(&mut state, KeyCode::Esc));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!state.key(interrupt, Columns::Times) && press(&mut state, KeyCode::Char('c')));
    }

    #[test]
    fn more_rows_than_there_is_room_for() {
        let rows: Vec<_> = (0..50_u64)
            .map(|n| (vec![format!("k{n:02}")], stats(&[n])))
            .collect();
        let mut state = State::default();
        let top = |state: &mut State| {
            shown(state, &rows, 15)[2]
                .split(' ')
                .next_back()
                .unwrap()
                .to_owned()
        };
        assert_eq!(top(&mut state), "k49");
        press(&mut state, KeyCode::Down);
        assert_eq!(top(&mut state), "k48");
        press(&mut state, KeyCode::PageDown);
        assert_eq!(top(&mut state), "k39");
        for _ in 0..20 {
            press(&mut state, KeyCode::PageDown);
        }
        assert_eq!(top(&mut state), "k09");
        press(&mut state, KeyCode::Up);
        assert_eq!(top(&mut state), "k10");
        press(&mut state, KeyCode::Home);
        assert_eq!(top(&mut state), "k49");
        // Screens without any room, or with little.
        for size in [(78, 1), (1, 1), (1, 40), (20, 5), (3, 2)] {
            assert_eq!(shown_in(&mut state, &rows, size).len(), usize::from(size.1));
        }
        assert!(shown_in(&mut state, &rows, (20, 5))[0].starts_with("1.0 s: 6 hits"));
    }
}
