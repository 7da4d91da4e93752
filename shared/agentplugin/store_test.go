package agentplugin

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
)

func TestStoreKeepsTheNewestTasks(t *testing.T) {
	ctx, _ := a2asrv.NewCallContext(t.Context(), nil)
	s := newStore(10)
	const tasks = 23
	for n := range tasks {
		task := &a2a.Task{ID: a2a.TaskID(fmt.Sprint(n)), ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}}
		if _, err := s.Create(ctx, task); err != nil {
			t.Fatal(err)
		}
	}
	const oldest = 15 // of those that are kept: 3 in the newer half, 5 in the older one
	for n := range tasks {
		stored, err := s.Get(ctx, a2a.TaskID(fmt.Sprint(n)))
		if n < oldest {
			if !errors.Is(err, a2a.ErrTaskNotFound) {
				t.Errorf("task %d: error %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("task %d: %v", n, err)
		}
		stored.Task.Status.State = a2a.TaskStateCompleted
		if _, err := s.Update(ctx, &taskstore.UpdateRequest{Task: stored.Task, PrevVersion: stored.Version}); err != nil {
			t.Errorf("task %d: %v", n, err)
		}
	}
	for _, pageSize := range []int{1, 2, 3, 5, 100} {
		var listed []string
		request := &a2a.ListTasksRequest{PageSize: pageSize, Status: a2a.TaskStateCompleted}
		for {
			page, err := s.List(ctx, request)
			if err != nil {
				t.Fatal(err)
			}
			if page.TotalSize != tasks-oldest || len(page.Tasks) > pageSize {
				t.Fatalf("%d of %d tasks on a page of %d", len(page.Tasks), page.TotalSize, pageSize)
			}
			for _, task := range page.Tasks {
				listed = append(listed, string(task.ID))
			}
			if page.NextPageToken == "" {
				break
			}
			request.PageToken = page.NextPageToken
		}
		slices.Sort(listed)
		if want := []string{"15", "16", "17", "18", "19", "20", "21", "22"}; !slices.Equal(listed, want) {
			t.Errorf("pages of %d: %q", pageSize, listed)
		}
	}
}
