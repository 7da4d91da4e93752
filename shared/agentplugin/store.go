package agentplugin

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
)

// maxTasks bounds the tasks that an agent keeps. The SDK's store, which forgets
// none, would fill the memory of an agent that runs for long.
const maxTasks = 10_000

// store keeps the newest tasks in memory, in two of the SDK's stores: when the
// one that new tasks go to is half of all, it becomes the older one, and what
// that was is forgotten.
type store struct {
	most int // tasks

	mu    sync.RWMutex
	newer taskstore.Store
	older taskstore.Store
	count int // of newer
}

var _ taskstore.Store = (*store)(nil)

func newStore(most int) *store { return &store{most: most, newer: newHalf(), older: newHalf()} }

func newHalf() taskstore.Store {
	return taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: caller})
}

// halves returns both, the newer first.
func (s *store) halves() (newer, older taskstore.Store) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.newer, s.older
}

func (s *store) Create(ctx context.Context, task *a2a.Task) (taskstore.TaskVersion, error) {
	s.mu.Lock()
	if s.count == s.most/2 {
		s.newer, s.older, s.count = newHalf(), s.newer, 0
	}
	s.count++
	newer := s.newer
	s.mu.Unlock()
	return newer.Create(ctx, task)
}

func (s *store) Update(ctx context.Context, update *taskstore.UpdateRequest) (taskstore.TaskVersion, error) {
	newer, older := s.halves()
	version, err := newer.Update(ctx, update)
	if errors.Is(err, a2a.ErrTaskNotFound) {
		return older.Update(ctx, update)
	}
	return version, err
}

func (s *store) Get(ctx context.Context, id a2a.TaskID) (*taskstore.StoredTask, error) {
	newer, older := s.halves()
	task, err := newer.Get(ctx, id)
	if errors.Is(err, a2a.ErrTaskNotFound) {
		return older.Get(ctx, id)
	}
	return task, err
}

// olderPage begins the token of a page of older tasks, which come after the
// newer ones.
const olderPage = "older:"

func (s *store) List(ctx context.Context, request *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	newer, older := s.halves()
	if token, ok := strings.CutPrefix(request.PageToken, olderPage); ok {
		page, _, err := list(ctx, request, older, token, newer)
		if err == nil && page.NextPageToken != "" {
			page.NextPageToken = olderPage + page.NextPageToken
		}
		return page, err
	}
	page, others, err := list(ctx, request, newer, request.PageToken, older)
	if err == nil && page.NextPageToken == "" && others > 0 {
		page.NextPageToken = olderPage
	}
	return page, err
}

// list lists a page of one half, and counts the others: those in the other half.
func list(ctx context.Context, request *a2a.ListTasksRequest, half taskstore.Store, token string, other taskstore.Store) (page *a2a.ListTasksResponse, others int, err error) {
	here, there := *request, *request
	here.PageToken, there.PageToken = token, ""
	if page, err = half.List(ctx, &here); err != nil {
		return nil, 0, err
	}
	rest, err := other.List(ctx, &there)
	if err != nil {
		return nil, 0, err
	}
	page.TotalSize += rest.TotalSize
	return page, rest.TotalSize, nil
}
