;; expect: 1.7
;; role: sampler
(global (mut funcref) (ref.null func))
