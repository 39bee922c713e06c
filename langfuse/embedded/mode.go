package embedded

// Mode names the Langfuse deployment whose behaviour is played. A store keeps
// what the mode of its time wrote: like a real server that is switched over, a
// store that was written in ModeV4 has no traces and no dataset runs to show in
// ModeV3, and one written in ModeV3 has no experiments to show in ModeV4.
type Mode string

// The modes that exist.
const (
	// ModeV4 is Langfuse 4 with its default write mode, events_only: runs exist
	// through the attributes of spans, legacy reads are 404.
	ModeV4 Mode = "v4"
	// ModeV4Dual is Langfuse 4 while it is migrated: both worlds are written and
	// both can be read.
	ModeV4Dual Mode = "v4-dual"
	// ModeV3 is Langfuse 3 with its default write mode, legacy: runs exist
	// through run items, the reads that came with Langfuse 4 are 404.
	ModeV3 Mode = "v3"
)

// Modes returns all modes, the default first.
func Modes() []Mode {
	return []Mode{ModeV4, ModeV4Dual, ModeV3}
}

// legacy says whether traces, run items and dataset runs are kept.
func (m Mode) legacy() bool {
	return m != ModeV4
}

// events says whether experiments are made from spans.
func (m Mode) events() bool {
	return m != ModeV3
}

func (m Mode) version() string {
	if m == ModeV3 {
		return DefaultVersionV3
	}
	return DefaultVersion
}
