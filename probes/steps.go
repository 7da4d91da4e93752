package probes

// step is a moment between two deeds of a stop.
type step string

const (
	stepOpen           step = "before the recorded process is opened"
	stepOpened         step = "after it was opened, before it is identified"
	stepIdentified     step = "after it was identified, before others are looked for"
	stepGlanced        step = "after a process of the instance was seen, before it is opened"
	stepHeld           step = "after it was opened, before its marker is read"
	stepExamined       step = "after it was proven, before it is taken"
	stepMemberSeen     step = "after a member of the group was seen, before it is opened"
	stepMemberHeld     step = "after it was opened, before it is taken"
	stepSearched       step = "after the search, before the polite signal"
	stepAsked          step = "after the polite signal, before the wait"
	stepWaiting        step = "during the wait"
	stepForce          step = "before the forced signal"
	stepForced         step = "after the forced signal"
	stepFound          step = "after a later search, before those found are signalled"
	stepFoundSignalled step = "after those found were signalled"
)

// testHook, if a test sets it, is called at each step, to let the world change
// there. It is nil otherwise.
var testHook func(step)

func reach(s step) {
	if testHook != nil {
		testHook(s)
	}
}
